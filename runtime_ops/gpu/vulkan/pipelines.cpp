#include "runtime_ops/gpu/vulkan/pipelines.h"

namespace daf::vulkan {
namespace {

// Compiled from the .comp files when the project is built.
constexpr uint32_t kRangeCode[] =
#include "range.spv.inc"
    ;
constexpr uint32_t kRangeSubgroupsCode[] =
#include "range_subgroups.spv.inc"
    ;
constexpr uint32_t kRangesCode[] =
#include "ranges.spv.inc"
    ;
constexpr uint32_t kRangesSubgroupsCode[] =
#include "ranges_subgroups.spv.inc"
    ;
constexpr uint32_t kDecodeCode[] =
#include "decode.spv.inc"
    ;
constexpr uint32_t kPackCode[] =
#include "pack.spv.inc"
    ;

struct Code {
  const uint32_t* words;
  size_t size_bytes;
};
constexpr Code kCode[] = {
    // by Shader
    {kRangeCode, sizeof(kRangeCode)},   {kRangeSubgroupsCode, sizeof(kRangeSubgroupsCode)},
    {kRangesCode, sizeof(kRangesCode)}, {kRangesSubgroupsCode, sizeof(kRangesSubgroupsCode)},
    {kDecodeCode, sizeof(kDecodeCode)}, {kPackCode, sizeof(kPackCode)}};

}  // namespace

Pipelines::Pipelines(const Device& device) : device_(device) {
  try {
    VkDescriptorSetLayoutBinding bindings[3] = {};
    for (uint32_t i = 0; i < 3; ++i) {
      bindings[i] = {i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
    }
    VkDescriptorSetLayoutCreateInfo set_info = {};
    set_info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
    set_info.bindingCount = 3;
    set_info.pBindings = bindings;
    check(vkCreateDescriptorSetLayout(device_.handle(), &set_info, nullptr, &set_layout_),
          "describe buffers");

    const VkPushConstantRange push = {VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(Arguments)};
    VkPipelineLayoutCreateInfo layout_info = {};
    layout_info.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
    layout_info.setLayoutCount = 1;
    layout_info.pSetLayouts = &set_layout_;
    layout_info.pushConstantRangeCount = 1;
    layout_info.pPushConstantRanges = &push;
    check(vkCreatePipelineLayout(device_.handle(), &layout_info, nullptr, &layout_),
          "describe pipelines");

    const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 3 * kMaxDispatches};
    VkDescriptorPoolCreateInfo pool_info = {};
    pool_info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
    pool_info.maxSets = kMaxDispatches;
    pool_info.poolSizeCount = 1;
    pool_info.pPoolSizes = &size;
    check(vkCreateDescriptorPool(device_.handle(), &pool_info, nullptr, &pool_),
          "make a descriptor pool");
    const std::vector<VkDescriptorSetLayout> layouts(kMaxDispatches, set_layout_);
    const VkDescriptorSetAllocateInfo sets = {VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                              nullptr, pool_, kMaxDispatches, layouts.data()};
    check(vkAllocateDescriptorSets(device_.handle(), &sets, sets_.data()), "make descriptor sets");
  } catch (...) {
    destroy();
    throw;
  }
}

Pipelines::~Pipelines() { destroy(); }

void Pipelines::destroy() {
  for (const auto& entry : pipelines_) vkDestroyPipeline(device_.handle(), entry.second, nullptr);
  vkDestroyDescriptorPool(device_.handle(), pool_, nullptr);
  vkDestroyPipelineLayout(device_.handle(), layout_, nullptr);
  vkDestroyDescriptorSetLayout(device_.handle(), set_layout_, nullptr);
}

VkPipeline Pipelines::pipeline(Shader shader, const Constants& constants) {
  VkPipeline& pipeline = pipelines_[{shader, constants}];
  if (pipeline != VK_NULL_HANDLE) return pipeline;
  const Code& code = kCode[static_cast<int>(shader)];
  VkShaderModuleCreateInfo module_info = {};
  module_info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  module_info.codeSize = code.size_bytes;
  module_info.pCode = code.words;
  VkShaderModule module = VK_NULL_HANDLE;
  check(vkCreateShaderModule(device_.handle(), &module_info, nullptr, &module), "load a shader");

  VkSpecializationMapEntry entries[std::tuple_size_v<Constants>];
  for (uint32_t i = 0; i < constants.size(); ++i) entries[i] = {i, i * 4, 4};
  const VkSpecializationInfo specialization = {static_cast<uint32_t>(constants.size()), entries,
                                               sizeof(constants), constants.data()};
  VkComputePipelineCreateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = module;
  info.stage.pName = "main";
  info.stage.pSpecializationInfo = &specialization;
  info.layout = layout_;
  const VkResult result =
      vkCreateComputePipelines(device_.handle(), VK_NULL_HANDLE, 1, &info, nullptr, &pipeline);
  vkDestroyShaderModule(device_.handle(), module, nullptr);
  check(result, "compile a shader");
  return pipeline;
}

void Pipelines::dispatch(VkCommandBuffer commands, int place, Shader shader,
                         const Constants& constants, const Views& views, const Arguments& arguments,
                         uint32_t n_workgroups) {
  VkDescriptorBufferInfo buffers[3];
  VkWriteDescriptorSet writes[3] = {};
  for (uint32_t i = 0; i < 3; ++i) {
    buffers[i] = {views[i].buffer, views[i].offset, views[i].size_bytes};
    writes[i].sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
    writes[i].dstSet = sets_[static_cast<size_t>(place)];
    writes[i].dstBinding = i;
    writes[i].descriptorCount = 1;
    writes[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    writes[i].pBufferInfo = &buffers[i];
  }
  vkUpdateDescriptorSets(device_.handle(), 3, writes, 0, nullptr);
  vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline(shader, constants));
  vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout_, 0, 1,
                          &sets_[static_cast<size_t>(place)], 0, nullptr);
  vkCmdPushConstants(commands, layout_, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(arguments),
                     arguments.data());
  vkCmdDispatch(commands, n_workgroups, 1, 1);
}

}  // namespace daf::vulkan
